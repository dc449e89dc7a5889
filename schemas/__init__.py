"""The nouns: frozen records with units, frames and shapes. numpy and the standard library only."""
