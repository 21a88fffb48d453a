{ SPDX-License-Identifier: MIT OR Apache-2.0 }
{ Classes, exceptions, strings with counted references and dynamic arrays. }
program prog;
{$mode objfpc}{$H+}
uses SysUtils, Classes;
type
  TShape = class
    function Area: Integer; virtual; abstract;
  end;
  TSquare = class(TShape)
    Side: Integer;
    constructor Create(s: Integer);
    function Area: Integer; override;
  end;
constructor TSquare.Create(s: Integer);
begin
  Side := s;
end;
function TSquare.Area: Integer;
begin
  Area := Side * Side;
end;
function Fib(n: Integer): Integer;
begin
  if n < 2 then Fib := n else Fib := Fib(n - 1) + Fib(n - 2);
end;
procedure Fail;
begin
  raise Exception.Create('failed');
end;
function Divide(a, b: Integer): Integer;
begin
  Divide := a div b;
end;
var
  shape: TShape;
  list: TStringList;
  numbers: array of Integer;
  i, sum: Integer;
begin
  WriteLn(Fib(20));
  shape := TSquare.Create(7);
  WriteLn(shape.Area);
  shape.Free;
  try
    Fail;
  except
    on e: Exception do WriteLn(e.Message);
  end;
  try
    WriteLn(Divide(1, StrToInt('0')));
  except
    on e: EDivByZero do WriteLn('division by zero');
  end;
  list := TStringList.Create;
  for i := 1 to 200 do list.Add(IntToStr(i * 7919 mod 211));
  list.Sort;
  WriteLn(list[0], ' ', list[199], ' ', list.Count);
  list.Free;
  SetLength(numbers, 1000);
  sum := 0;
  for i := 0 to High(numbers) do begin numbers[i] := i; sum := sum + numbers[i]; end;
  WriteLn(sum, ' ', Format('%.3f', [Sqrt(2.0)]));
end.
