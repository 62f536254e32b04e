import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { z } from 'zod';
import { KERNEL_NAME, withProgress } from '../../cell';
import { ShardlabError } from '../../core';
import { wholeNumber } from '../arguments';
import { processorName } from '../doctor/checks';
import { writeKernelspec } from '../install/kernelspec-folder';
import { jupyterPython } from '../install/python';
import { type Io, type Perform, progressOn } from '../io';
import { runPython } from './python-peer';

const milliseconds = z.number().nullable();
const byCells = z.record(z.string(), milliseconds);

const figuresSchema = z.object({
  kernel: z.string(),
  error: z.string().optional(),
  start_to_kernel_info_ms: milliseconds.optional(),
  start_to_first_result_ms: milliseconds.optional(),
  expression_ms: byCells.optional(),
  declaration_ms: byCells.optional(),
  cells_s: z.number().optional(),
  first_cell_mb: z.number().optional(),
  all_cells_mb: z.number().optional(),
  per_cell_mb: z.number().optional(),
  rested_mb: z.number().optional(),
  logs_ms: milliseconds.optional(),
  logs_lines: z.number().optional(),
  logs_messages: z.number().optional(),
  subshell_ms: milliseconds.optional(),
  interrupt_ms: byCells.optional(),
});

/**
 * The measurements of one kernel; each time is a median. Memory is the proportional set size of all its processes in MiB:
 * after the first cell, after 200 cells, and after a rest without cells.
 */
type KernelFigures = z.output<typeof figuresSchema>;

interface KernelBenchOptions {
  readonly kernel?: readonly string[];
  readonly repeat: number;
  readonly rest: number;
}

/** `shardlab bench kernel`: measures our kernel, and other kernels by name, through a real Jupyter client. */
export function addKernelBench(bench: Command, perform: Perform, io: Io): void {
  const command = bench
    .command('kernel')
    .description(
      'measures start, first cell, latency and memory over 200 cells, memory at rest, logs, subshells and interrupts, with a Jupyter client',
    )
    .option('--kernel <names...>', 'other kernels to measure in the same run, such as python3')
    .option('--repeat <n>', 'number of starts of each kernel', wholeNumber(1), 5)
    .option('--rest <seconds>', 'seconds without a cell before the memory at rest', wholeNumber(0), 70);
  perform<KernelBenchOptions>(command, async (_, { kernel = [], repeat, rest }, output) => {
    const work = () => measure([KERNEL_NAME, ...kernel], { repeat, rest }, io);
    const kernels = await withProgress('measuring kernels', '', work, progressOn(io));
    const report = { processor: processorName(), kernels };
    output.answer(report, () => [report.processor, ...kernels.map(asLine)].join('\n'));
    return kernels.some(({ error }) => error !== undefined) ? 1 : 0;
  });
}

/** Runs the client with this installation's kernelspec, even if another one is installed. */
async function measure(
  kernels: readonly string[],
  { repeat, rest }: Pick<KernelBenchOptions, 'repeat' | 'rest'>,
  io: Io,
): Promise<readonly KernelFigures[]> {
  const data = mkdtempSync(join(tmpdir(), 'shardlab-bench-'));
  try {
    writeKernelspec(data);
    const path = io.env.JUPYTER_PATH;
    const env = { ...io.env, JUPYTER_PATH: path === undefined ? data : `${data}:${path}` };
    const script = join(__dirname, 'jupyter_kernel_bench.py');
    const args = [script, ...kernels, '--repeat', String(repeat), '--rest', String(rest)];
    const printed = await runPython(jupyterPython(io.env), args, { ...io, env });
    return printed.trim().split('\n').map(parseLine);
  } finally {
    rmSync(data, { recursive: true, force: true });
  }
}

function parseLine(line: string): KernelFigures {
  const figures = figuresSchema.safeParse(JSON.parse(line));
  if (figures.success) return figures.data;
  throw new ShardlabError('INTERNAL', `the Jupyter client printed ${line}: ${figures.error.message}`);
}

function asLine({ kernel, error, ...figures }: KernelFigures): string {
  if (error !== undefined) return `${kernel}: ${error}`;
  const parts = Object.entries(figures).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return `${kernel}: ${parts.join(', ')}`;
}
