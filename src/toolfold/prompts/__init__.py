"""Texts about tools for prompts: signatures, catalogs and stubs."""
