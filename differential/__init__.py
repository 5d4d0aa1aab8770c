"""Who is compared, and where bytes really move."""
