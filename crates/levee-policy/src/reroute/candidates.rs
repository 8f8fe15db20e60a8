//! Routing configurations that are worth a play: prepending both ways, withdrawal, communities, poisoning with its controls.
