"""Guest package: runs beside the program, inside the jail. Standard library only, no `toolfold`."""
