(* SPDX-License-Identifier: MIT OR Apache-2.0 *)
(* Exceptions, closures, an overflow of the stack, strings and a garbage collection. *)
type tree = Leaf | Node of tree * int * tree

let rec insert x = function
  | Leaf -> Node (Leaf, x, Leaf)
  | Node (l, y, r) as t -> if x < y then Node (insert x l, y, r) else if x > y then Node (l, y, insert x r) else t

let rec size = function Leaf -> 0 | Node (l, _, r) -> size l + 1 + size r
let[@inline never] rec deep x = if x < 0 then 0 else 1 + deep (x + 1)
let[@inline never] divide a b = a / b

let () =
  let t = ref Leaf in
  for i = 1 to 4000 do t := insert (i * 7919 mod 10007) !t done;
  Printf.printf "%d\n" (size !t);
  (try ignore (deep 0) with Stack_overflow -> print_endline "overflow");
  (try ignore (divide 1 0) with Division_by_zero -> print_endline "division by zero");
  (try ignore (List.find (fun x -> x > 9) [ 1; 2 ]) with Not_found -> print_endline "not found");
  let words = Hashtbl.create 10 in
  List.iter (fun w -> Hashtbl.replace words w (String.length w)) [ "one"; "three"; "eleven" ];
  Printf.printf "%d\n" (Hashtbl.fold (fun _ n sum -> n + sum) words 0);
  Gc.compact ();
  print_endline (String.concat "," (List.map string_of_int (List.sort compare [ 3; 1; 2 ])))
