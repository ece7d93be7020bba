class ImageBuilder:
    pass
