import { basename } from 'node:path';
import type { Notebook } from './executed';
import { answers, type Fact, shows, titled } from './fact';
import { LATER_FACTS } from './later-facts';
import { figuresOf, textOf } from './sentences';

/** Numbers and results that the prose of the notebooks states. */
const FACTS: readonly Fact[] = [
  {
    notebook: '00-quickstart',
    sentence: '0 + 1 + 2 + 3 = 6',
    holds: (outputs) => shows(outputs, /ranks 0-3 agree\n\[ 6, 6, 6, 6 \]/),
  },
  {
    notebook: '00-quickstart',
    sentence: 'Most of the memory is **activations**',
    holds: (_, notebook) => titled(notebook, /[5-9]\d% is activations and temporaries/) !== undefined,
  },
  {
    notebook: '00-quickstart',
    sentence: 'The two loss curves coincide',
    holds: (_, notebook) =>
      titled(
        notebook,
        /^(2 runs have exactly equal losses|The losses of 2 runs differ by at most \d(\.\d)?e-[67])/,
      ) !== undefined,
  },
  {
    notebook: '00-quickstart',
    sentence: 'each rank held exactly a quarter of parameters, gradients and optimizer state',
    holds: (_, notebook) => titled(notebook, /holds 4\.0× the states of "FULL_SHARD"/) !== undefined,
  },
  {
    notebook: '00-quickstart',
    sentence: 'The model continues `To ` from what it has learned',
    holds: (outputs) => shows(outputs, /^'To be, or not to be, that is the question\.'$/),
  },
  {
    notebook: '01-zero-memory',
    sentence: 'The results must not depend on where values are stored',
    holds: (_, notebook) => titled(notebook, /have exactly equal losses over 2 common steps/) !== undefined,
  },
  {
    notebook: '02-fsdp-knobs',
    sentence: '(loss, gradient norm) make 16',
    holds: (_, notebook) =>
      figuresOf(notebook).some(({ rows }) =>
        rows.some(({ run, numCollectives }) => run === 'blocks' && numCollectives === '16'),
      ),
  },
  {
    notebook: '02-fsdp-knobs',
    sentence: '52 collectives per step with one unit per Linear, 16 with one per block',
    holds: (_, notebook) =>
      figuresOf(notebook).some(
        ({ rows }) =>
          rows.some(({ run, numCollectives }) => run === 'every Linear' && numCollectives === '52') &&
          rows.some(({ run, numCollectives }) => run === 'blocks' && numCollectives === '16'),
      ),
  },
  {
    notebook: '02-fsdp-knobs',
    sentence: 'The bytes are the same; the title says how long the ranks waited here',
    holds: (_, notebook) => answers(notebook, /in all runs a rank receives [\d.]+ MB/),
  },
  {
    notebook: '03-offload-and-checkpoint',
    sentence: 'are equal in every bit',
    holds: (outputs) => outputs.includes('true'),
  },
  {
    notebook: '03-offload-and-checkpoint',
    sentence: "The device's memory falls by exactly 8 N / 2 bytes",
    holds: (_, notebook) => {
      const rows = titled(notebook, /^"no offload" holds .* the states of "offload"/)?.rows ?? [];
      const optimizer = (run: string) =>
        rows.find((row) => row.run === run && row.cause === 'optimizer')?.peakBytes;
      return (
        optimizer('no offload') === (4 * 1_063_680).toLocaleString('en-US') &&
        optimizer('offload') === undefined
      );
    },
  },
  {
    notebook: '04-megatron-3d',
    sentence: 'with it, the largest difference is 0',
    holds: (outputs) => shows(outputs, /ranks 0-7 agree\n\[ true, 0 \]/),
  },
  {
    notebook: '04-megatron-3d',
    sentence: 'Are these all the activation bytes that rank 0 receives for TP?',
    holds: (outputs) => shows(outputs, /formula: (\d+), received: \1 /),
  },
  {
    notebook: '04-megatron-3d',
    sentence: 'losses may differ by rounding',
    holds: (_, notebook) =>
      titled(
        notebook,
        /^(2 runs have exactly equal losses|The losses of 2 runs differ by at most \d(\.\d)?e-[78])/,
      ) !== undefined,
  },
  {
    notebook: '04-megatron-3d',
    sentence: 'all losses are equal',
    holds: (outputs) =>
      outputs.some((text) => {
        const rows = [...text.matchAll(/^\w+, \d+ +[\d.]+ +([\d.]+) +-?[\d.]+ +([\d.]+)$/gm)];
        const [gpipe4, gpipe8, gpipe16, , interleaved] = rows.map(([, measured]) => Number(measured));
        if (rows.length !== 5 || new Set(rows.map(([, , loss]) => loss)).size > 1) return false;
        return (
          Number(gpipe4) > Number(gpipe8) && Number(gpipe8) > Math.max(Number(gpipe16), Number(interleaved))
        );
      }),
  },
  {
    notebook: '04-megatron-3d',
    sentence: 'Both stages fit, with more than half of the memory free',
    holds: (outputs) =>
      outputs.some((text) => {
        const [, peak, usable] = /, ([\d.]+) GB of ([\d.]+) GB: fits/.exec(text) ?? [];
        return Number(peak) < Number(usable) / 2;
      }),
  },
  {
    notebook: '05-wan-moe',
    sentence: '2 × 14.29B = 28.58B parameters',
    holds: (outputs) => shows(outputs, /billions: 28\.57\d*,\s+perExpert: 14\.28/),
  },
  {
    notebook: '05-wan-moe',
    sentence: 'the plan has 6.75 GB of them',
    holds: (_, notebook) =>
      titled(notebook, /^The document has 62\.0 GB without gradients/)?.rows.some(
        ({ cause, predictedBytes }) => cause === 'grad.shard' && predictedBytes === '6,750,000,000',
      ) === true,
  },
  {
    notebook: '05-wan-moe',
    sentence: 'The other expert is never gathered',
    holds: (outputs) => shows(outputs, /\n +1 +6 +0\n +2 +0 +6$/),
  },
  {
    notebook: '05-wan-moe',
    sentence: 'the load is as unequal as this preference',
    holds: (_, notebook) => {
      const rows = titled(notebook, /^The highest value is [\d.]+: logits far from 0/)?.rows ?? [];
      const shares = (series: string) =>
        rows.flatMap((row) => (row.series === series ? [Number(row.y)] : []));
      return Math.max(...shares('logits near 0')) < 34 && Math.max(...shares('logits far from 0')) > 50;
    },
  },
  {
    notebook: '05-wan-moe',
    sentence: 'each of bsh(P − 1)/P² elements',
    holds: (outputs) => shows(outputs, /numExchanges: 16, received: (\d+), formula: \1 /),
  },
  {
    notebook: '05-wan-moe',
    sentence: 'The losses equal those of one process',
    holds: (_, notebook) => titled(notebook, /^2 runs have exactly equal losses/) !== undefined,
  },
  {
    notebook: '05-wan-moe',
    sentence: 'Two experts have the lowest loss',
    holds: (outputs) =>
      outputs.some((text) => {
        const lossOf = (name: string): number =>
          Number(new RegExp(`${name} +([\\d.]+)`).exec(text)?.[1] ?? Number.NaN);
        const two = lossOf('two experts');
        return two < lossOf('one expert') && two < lossOf('shuffled captions');
      }),
  },
  {
    notebook: '06-claims',
    sentence: 'This claim is checked by a formula',
    holds: (outputs) => shows(outputs, /^This claim's evidence still holds$/),
  },
  {
    notebook: '07-planner',
    sentence: 'At 32,760 tokens attention takes longer than the matmuls',
    holds: (_, notebook) => {
      const rows = figuresOf(notebook).find(({ rows: [row] }) => row?.attention !== undefined)?.rows ?? [];
      return rows.length > 0 && rows.every(({ attention, products }) => Number(attention) > Number(products));
    },
  },
  {
    notebook: '07-planner',
    sentence: 'Its predicted peak must be exactly the measured peak',
    holds: (outputs) => shows(outputs, /^\[ (\d+), \1 \]$/),
  },
  ...LATER_FACTS,
];

/** Facts of a notebook's prose that its outputs do not show, and facts whose sentence no longer exists. */
export function unshownFacts(path: string, notebook: Notebook): string[] {
  const name = basename(path, '.ipynb');
  const prose = notebook.cells
    .filter(({ cell_type }) => cell_type === 'markdown')
    .map(({ source }) => [source].flat().join(''))
    .join('\n');
  const outputs = notebook.cells.flatMap(({ outputs: shown = [] }) => shown.map(textOf));
  return FACTS.filter((fact) => fact.notebook === name).flatMap(({ sentence, holds }) => {
    if (!prose.includes(sentence))
      return [`the prose no longer says "${sentence}": correct the list of facts`];
    return holds(outputs, notebook) ? [] : [`the outputs do not show "${sentence}"`];
  });
}
