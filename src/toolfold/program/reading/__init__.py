"""The parts of the walk over a program's tree; `program.reader` puts them together."""
