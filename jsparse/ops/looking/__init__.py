"""Looking at a tensor: `print(A)`, its picture in notebooks, and `A.spy()`."""
