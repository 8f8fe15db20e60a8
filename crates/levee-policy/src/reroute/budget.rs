//! How often announcements may change, below route-flap damping (RFC 2439, RFC 7196).
