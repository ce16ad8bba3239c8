"""The layouts in which records lie: objects of exports, and live topics as they are landed."""
