"""What every other package may use: memos, limits of sizes, checks of arrays. It knows no tensor and no format."""
