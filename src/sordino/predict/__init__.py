"""Using a trained model: load it, predict with it, export it with a card that says what it promises."""
