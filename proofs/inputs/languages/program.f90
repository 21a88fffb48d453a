! SPDX-License-Identifier: MIT OR Apache-2.0
! Modules, allocation, recursion, formatted output and a procedure as an argument.
module shapes
  implicit none
  type :: square
    integer :: side
  contains
    procedure :: area
  end type
contains
  integer function area(this)
    class(square), intent(in) :: this
    area = this%side * this%side
  end function
  recursive integer function fib(n) result(r)
    integer, intent(in) :: n
    if (n < 2) then
      r = n
    else
      r = fib(n - 1) + fib(n - 2)
    end if
  end function
  integer function apply(f, x)
    interface
      integer function f(n)
        integer, intent(in) :: n
      end function
    end interface
    integer, intent(in) :: x
    apply = f(x)
  end function
end module
program prog
  use shapes
  implicit none
  type(square) :: s
  real, allocatable :: a(:, :), b(:, :)
  character(len=32) :: text
  integer :: i, status
  s%side = 7
  print *, s%area(), apply(fib, 20)
  allocate (a(30, 30), b(30, 30))
  a = 1.5
  b = matmul(a, transpose(a))
  print '(f8.2)', sum(b)
  write (text, '(i5,a)') 42, ' units'
  print *, trim(text)
  read (text, *, iostat=status) i
  print *, i, status
end program
