"""Text: normalisation, pieces and sentences, exactly as the official ALBERT code has them."""
