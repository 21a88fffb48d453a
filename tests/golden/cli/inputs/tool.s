/* Functions of known sizes, on any architecture; they never run. Linked: cc -nostdlib -static -Wl,-e,main,--build-id=none tool.s -o tool */
	.section .text.main,"ax",%progbits
	.globl main
	.type main, %function
main:
	.fill 64, 1, 0
	.size main, 64
	.section .text.work,"ax",%progbits
	.globl work
	.type work, %function
work:
	.fill 400, 1, 0
	.size work, 400
	.section .text.leaf,"ax",%progbits
	.globl leaf
	.type leaf, %function
leaf:
	.fill 96, 1, 0
	.size leaf, 96
	.section .text.usage,"ax",%progbits
	.globl usage
	.type usage, %function
usage:
	.fill 3000, 1, 0
	.size usage, 3000
	.section .text.report,"ax",%progbits
	.globl report
	.type report, %function
report:
	.fill 2000, 1, 0
	.size report, 2000
	.section .text.fail,"ax",%progbits
	.globl fail
	.type fail, %function
fail:
	.fill 5000, 1, 0
	.size fail, 5000
	.section .note.GNU-stack,"",%progbits
