"""Tokens that stand for values: the same for the same value under one key, and nothing to be read off them."""

from __future__ import annotations

import hmac
from functools import lru_cache

DIGITS = 12


class Tokens:
    """Makes tokens.

    Args:
        key: Secret. Under another key every token is another one.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.token = lru_cache(maxsize=4096)(self._token)

    def _token(self, kind: str, canon: str, turn: int = 0) -> str:
        """The token of a value, such as `mail_7f3a9c21d0e4`.

        Args:
            kind: Letters, in front of it.
            canon: The value in its canonical form.
            turn: 1, 2, … when the one before stands in the text by chance or belongs to another value.
        """
        said = f"{turn}\0{kind}\0{canon}".encode("utf-8", "surrogatepass")
        return f"{kind}_{hmac.digest(self._key, said, 'sha256').hex()[:DIGITS]}"
