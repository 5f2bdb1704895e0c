#include <stdio.h>

int main(void)
{
    puts("poseidon");
    return 0;
}
