"""Numbers of stored runs in the sentences of pages."""

import re
from collections.abc import Callable

NUMBER = r"-?\d+(?:\.\d+)?"


def fill(page: str, text: str, quotes: list[str], field: re.Pattern[str], value: Callable[[re.Match[str]], str]) -> str:
    """The text with the numbers that `value` has for the fields of each quote.  A line may end at any space of a quote.  A quote
    that does not stand exactly once is an error."""
    for quote in quotes:
        wanted = [value(one) for one in field.finditer(quote)]
        shown = re.escape(field.sub("\0", quote)).replace("\0", rf"({NUMBER}(?:\s+(?:to|到)\s+{NUMBER})?)")
        places = list(re.finditer(re.sub(r"(\\[ \n])+", r"\\s+", shown), text))
        if len(places) != 1:
            raise SystemExit(f"{page}: {len(places)} places that say: {quote}")
        for i in range(len(wanted), 0, -1):
            if places[0][i].split() != wanted[i - 1].split():
                text = text[: places[0].start(i)] + wanted[i - 1] + text[places[0].end(i) :]
    return text
