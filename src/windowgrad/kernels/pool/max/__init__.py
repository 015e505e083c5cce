"""Maximum: `entry` chooses, `rows` computes values, the `winner_` files find winners and derivatives."""
