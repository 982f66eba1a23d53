"""What runs beside the program, inside the jail. Standard library only; never imports `toolfold`."""
