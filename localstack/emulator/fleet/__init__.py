"""How an instant fleet is launched: read, order, check, launch."""
