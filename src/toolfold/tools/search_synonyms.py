"""Words that people use for the same thing; a search takes one for another, at less than its full weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolfold.tools.search_words import stem

_GROUPS: Final = """
temperature weather forecast climate rain humid snow wind
buy purchase order
translate translation convert conversion language
sort arrange order ascending
song music track play listen artist album
combine concatenate join merge
add addition sum plus total
multiply multiplication product times
subtract subtraction minus difference
divide division quotient
find search look locate discover
get retrieve fetch obtain
show display list view
delete remove erase cancel
create make generate new build
update change modify edit set
compute calculate determine evaluate
book reserve schedule reservation appointment
trip travel flight journey
hotel stay accommodation lodge room
movie film cinema
restaurant food eat meal dinner cuisine dining
car vehicle automobile cab taxi ride
money amount cost price fare fee
send transfer pay deliver
message email text mail
remind remember todo task
web internet online website url http
picture photo image
person people user individual
house home apartment property rent
job employment work career
doctor physician provider therapist dentist
command terminal shell execute run open launch
error issue problem bug
area surface
distance far length km mile
news headline article
stock share market ticker
recipe cook ingredient
test exam score grade
city town location place
big large biggest largest greatest maximum
small smallest minimum lowest
fast speed velocity
store shop supermarket grocery
probability chance likelihood odds
nearby near closest nearest
law legal court case lawsuit
country nation
loan mortgage interest
directory folder file
request endpoint rest
ticket issue
meeting event calendar appointment
comment note remark
customer client
employee staff worker colleague
invoice bill receipt
expense spending cost
listen hear play
watch stream play
actor cast star director
currency exchange dollar euro pound
alarm notification alert reminder
rotate turn spin
begin start launch
stop end kill terminate close
pick choose select
"""


def _table() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in _GROUPS.strip().splitlines():
        group = [stem(word) for word in line.split()]
        for word in group:
            found.setdefault(word, set()).update(group)
    return {word: frozenset(others - {word}) for word, others in found.items()}


SYNONYMS: Final[Mapping[str, frozenset[str]]] = _table()
"""By the stem, as the index has it."""
