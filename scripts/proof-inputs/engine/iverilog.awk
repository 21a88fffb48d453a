# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Writes a design in Verilog: for recording, counters and adders; for the test, state machines, memories and functions.
BEGIN {
    if (workload == "record") {
        for (i = 0; i < 40; i++) {
            print "module part" i " #(parameter W = " 4 + i % 9 ") (input clk, input [W-1:0] a, b, output reg [W-1:0] q, output c);"
            print "  wire [W:0] sum = a + b + q; assign c = sum[W] ^ (|a & ~^b);"
            print "  always @(posedge clk) if (c) q <= sum[W-1:0] << 1; else q <= {q[W-2:0], a[0]} - " i ";"
            print "endmodule"
        }
        print "module top; reg clk = 0; always #5 clk = ~clk;"
        for (i = 0; i < 160; i++) print "  wire [" 3 + i % 9 ":0] q" i "; wire c" i "; part" i % 40 " #(" 4 + i % 9 ") u" i " (clk, q" i ", ~q" i ", q" i ", c" i ");"
        print "  initial begin repeat (10) @(posedge clk); $display(\"%d\", q1); $finish; end endmodule"
    } else {
        for (i = 0; i < 30; i++) {
            print "module machine" i "(input wire clk, rst, input wire [7:0] in, output reg [15:0] out);"
            print "  localparam IDLE = 0, RUN = 1, DONE = 2; reg [1:0] state; reg [15:0] store [0:" 15 + i "]; integer k;"
            print "  function [15:0] mix(input [15:0] x, input [7:0] y); begin mix = (x * y) ^ {y, x[15:8]}; if (mix[3]) mix = mix >>> 2; end endfunction"
            print "  task note(input [15:0] v); begin for (k = 0; k < 4; k = k + 1) store[k] = v + k; end endtask"
            print "  always @(posedge clk or negedge rst) if (!rst) begin state <= IDLE; out <= 16'hdead; end else case (state)"
            print "    IDLE: if (in > " i ") state <= RUN; RUN: begin out <= mix(out, in); note(out); if (out == 16'd" i * 7 ") state <= DONE; end"
            print "    default: begin state <= IDLE; out <= store[in[3:0]] ? store[1] % 7 : ~out; end endcase"
            print "endmodule"
        }
        print "`timescale 1ns/1ps\nmodule top; reg clk, rst; reg [7:0] in; real r; event e;"
        print "  genvar g; generate for (g = 0; g < 12; g = g + 1) begin : row wire [15:0] o; if (g % 2) machine3 m(.clk(clk), .rst(rst), .in(in + g[7:0]), .out(o)); else machine4 m(clk, rst, in, o); end endgenerate"
        for (i = 0; i < 90; i++) print "  wire [15:0] o" i "; machine" i % 30 " m" i "(.clk(clk), .rst(rst), .in(in ^ 8'd" i "), .out(o" i "));"
        print "  initial begin clk = 0; rst = 0; r = 1.5; #3 rst = 1; forever begin #5 clk = ~clk; -> e; end end"
        print "  always @(e) fork #1 in = $random; begin : b r = r * 2.0; disable b; end join"
        print "  endmodule"
    }
}
