// SPDX-License-Identifier: MIT OR Apache-2.0
#include <stdio.h>
#include <stdlib.h>
static int __attribute__((noinline)) leaf(int x){ __asm__ volatile(""); return x*3+1; }
int __attribute__((noinline)) recurse(int n){ __asm__ volatile(""); return n<=0?0:1+recurse(n-1); }
int __attribute__((noinline)) caller(int n){ int s=0; for(int i=0;i<n;i++) s+=leaf(i); return s; }
int __attribute__((noinline)) by_pointer(int (*f)(int), int n){ int s=0; for(int i=0;i<n;i++) s+=f(i); return s; }
static int cmp(const void*a,const void*b){ return *(const int*)a-*(const int*)b; }
int twin_of_other(int);
static int __attribute__((noinline)) twin(int x){ __asm__ volatile(""); return x+1; }
int main(int c,char**v){ int a[8]={5,3,8,1,9,2,7,4}; qsort(a,8,sizeof a[0],cmp); int s=caller(1000)+recurse(20)+by_pointer(leaf,7)+twin(c)+twin_of_other(c); printf("%d\n", s+a[0]); return 0; }
