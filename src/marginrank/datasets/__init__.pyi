from .digit_images import digits as digits
