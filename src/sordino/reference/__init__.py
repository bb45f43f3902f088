"""What every setting means, taken from the code itself: for `sordino methods NAME`, and for a page of the documentation."""
