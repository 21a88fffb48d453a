--  SPDX-License-Identifier: MIT OR Apache-2.0
--  Exceptions, tasks, containers, tagged types and text.
with Ada.Text_IO; use Ada.Text_IO;
with Ada.Exceptions;
with Ada.Containers.Ordered_Maps;

procedure Program is
   package Maps is new Ada.Containers.Ordered_Maps (Integer, Integer);
   type Shape is tagged record Side : Integer; end record;
   function Area (S : Shape) return Integer is (S.Side * S.Side);
   Failed : exception;

   function Fib (N : Integer) return Integer is
     (if N < 2 then N else Fib (N - 1) + Fib (N - 2));

   procedure Fail (N : Integer) is
   begin
      if N = 0 then raise Failed with "failed"; end if;
      Fail (N - 1);
   end Fail;

   function Divide (A, B : Integer) return Integer is (A / B);

   M : Maps.Map;
   S : constant Shape := (Side => 7);
   Sum : Integer := 0;
begin
   Put_Line (Integer'Image (Fib (20)) & Integer'Image (Area (S)));
   begin
      Fail (10);
   exception
      when E : Failed => Put_Line (Ada.Exceptions.Exception_Message (E));
   end;
   begin
      Put_Line (Integer'Image (Divide (1, Integer (M.Length))));
   exception
      when Constraint_Error => Put_Line ("division by zero");
   end;
   for I in 1 .. 500 loop M.Include (I * 7919 mod 101, I); end loop;
   for E of M loop Sum := Sum + E; end loop;
   Put_Line (Integer'Image (Sum) & Integer'Image (Integer (M.Length)));
   declare
      task Worker is entry Go (N : Integer); end Worker;
      task body Worker is
         X : Integer;
      begin
         accept Go (N : Integer) do X := N; end Go;
         Put_Line ("task" & Integer'Image (X));
      end Worker;
   begin
      Worker.Go (42);
   end;
end Program;
