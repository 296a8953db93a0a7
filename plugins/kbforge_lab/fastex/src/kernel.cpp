// What the sampler takes from the kernel.
#include "crew.cpp"
#include "numbers.cpp"
