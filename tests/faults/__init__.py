"""A checker in the spirit of Jepsen: clients, faults, and afterwards what every side saw."""
