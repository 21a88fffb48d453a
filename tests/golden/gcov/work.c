static int odd (int x) { return x & 1 ? x * 3 : x / 2; }
int never (int n) { return n > 3 ? n : 4; }
int main (void)
{
  int sum = 0;
  for (int i = 0; i < 500; i++)
    sum += odd (i) % (i + 1);
  return sum == 0;
}
