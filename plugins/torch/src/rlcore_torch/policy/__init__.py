"""Policies: acting, frozen copies, and copies that act together."""
