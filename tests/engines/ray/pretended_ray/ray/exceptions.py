"""What Ray raises."""


class RayError(Exception):
    pass
