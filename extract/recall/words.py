"""Names and words used in the contexts; their order is part of the measurement."""

from __future__ import annotations

ADJECTIVES = tuple(
    """amber brave calm dusty eager frozen gentle hollow ivory jolly keen lively mellow narrow
    olive patient quiet rusty silver tender upper violet warm yellow zealous bright copper
    distant early faded golden humble""".split()  # noqa: SIM905
)
NOUNS = tuple(
    """anchor basket candle desert engine forest garden harbor island jacket kettle ladder
    mirror needle orchard pencil quarry river saddle temple umbrella valley window yard
    bridge castle drum falcon glacier hammer lantern meadow""".split()  # noqa: SIM905
)
LISTED = tuple(
    """apple arrow autumn bacon badge barrel beach bench bottle branch bread brick brush bucket
    button cabin cactus camel carpet cave chain cherry circle cloud coast comet corner cotton
    cradle crown curtain daisy dinner dollar donkey dragon eagle elbow fabric feather fence ferry
    finger flag flame flute folder fountain fox ghost giant glove goat grape guitar hat hawk
    honey horse hotel insect iron jewel jungle king kitchen knife lake lamp leaf lemon letter
    lion lock magnet map maple market mask melon metal milk monkey moon motor mountain museum
    napkin nest ocean onion owl paint palace panda paper parade parrot path pearl pepper piano
    pillow pilot planet plate pocket poem potato prince puzzle rabbit radio rain ribbon rice
    ring road robot rocket roof rope rose salad sand scarf school shadow shell ship shirt shoe
    silk smoke snow soap sock spider spoon stamp star statue stone storm street sugar summer
    sword table tiger tomato tower train tree tunnel turtle vase village violin wagon wall
    wheel whistle winter wolf wood wool zebra""".split()  # noqa: SIM905
)
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Of variables' names: consonants, so that no name is a word."""
