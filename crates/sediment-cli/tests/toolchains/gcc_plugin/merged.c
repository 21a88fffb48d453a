#include <stdio.h>
#include <stdlib.h>
struct node { int tag; };
struct one { int tag; struct node *first; };
struct two { int tag; long *first; struct two *second; };
struct three { int tag; double *first; char *second; };
struct four { int tag; char *first; long *second; };
typedef int walker (void *, int);
__attribute__((noinline)) int end (void *of, int depth) { return (of != 0) + depth; }
__attribute__((noipa)) int walk (struct node *node, walker *walker, int depth)
{
  if (!node)
    return 0;
  if (depth > 9999)
    abort ();
  switch (node->tag)
    {
    case 0: return depth;
    case 1: return walker (((struct one *) node)->first, depth);
    case 2: if (walker (((struct two *) node)->second, depth)) return 1; return walker (((struct two *) node)->first, depth);
    case 3: return walker (((struct three *) node)->first, depth);
    case 4: return walker (((struct four *) node)->first, depth);
    case 5: if (walker (((struct four *) node)->second, depth)) return 1; break;
    case 6: if (walker (((struct three *) node)->second, depth)) return 1; break;
    default: puts ("tag"); abort ();
    }
  return 0;
}
int main (int count, char **words)
{
  struct four nodes[7] = { { 0 }, { 1 }, { 2 }, { 3 }, { 4 }, { 5 }, { 6 } };
  int sum = 0;
  for (int i = 0; i < 7000; i++)
    sum += walk ((struct node *) &nodes[i % 7], end, 0);
  printf ("%d\n", sum);
  return 0;
}
