//! Situations in a few lines of text, and generators for properties.
