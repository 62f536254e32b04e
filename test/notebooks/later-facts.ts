import { Mystery } from '../../src/launch/control/mystery';
import { type Fact, shows, titled } from './fact';
import { figuresOf } from './sentences';

/** Facts of the notebooks from 09 on. */
export const LATER_FACTS: readonly Fact[] = [
  {
    notebook: '09-debugging',
    sentence: 'The note names who waits, in which collective, for whom, and the line',
    holds: (outputs) => shows(outputs, /ranks 0, 1, 3 wait in barrier #\d+ for rank 2, which runs .*:3 /),
  },
  {
    notebook: '09-debugging',
    sentence: 'The first error names the rank that will never call',
    holds: (outputs) => shows(outputs, /ranks 0, 1, 3 wait in allReduce #\d+, but rank 2 ended/),
  },
  {
    notebook: '09-debugging',
    sentence: 'so the error shows both calls',
    holds: (outputs) =>
      shows(outputs, /called allReduce of 4 float32 .* rank 1 called allReduce of 5 float32/),
  },
  {
    notebook: '09-debugging',
    sentence: 'Rank 2 sent zeros in place of its gradients of block 1',
    holds: (outputs, notebook) =>
      titled(notebook, /^First difference: step 1, the gradient of blocks\.1\./) !== undefined &&
      shows(outputs, /rank 2: reduceScatter of blocks\.1 /) &&
      new Mystery(1).solve({ rank: 2, at: 'reduceScatter layer 1', do: 'skip' }).isRight,
  },
  {
    notebook: '09-debugging',
    sentence: 'Rank 2 of the first run trains another model than the others',
    holds: (outputs) =>
      shows(outputs, /rank 2: .* differ from ranks 0, 1, 3/) &&
      shows(outputs, /values that ranks must have in common are equal/),
  },
  {
    notebook: '09-debugging',
    sentence: 'The two curves coincide. The copies were those of step 4, so step 5 was repeated',
    holds: (outputs, notebook) =>
      titled(notebook, /^2 runs have exactly equal losses over 10 common steps$/) !== undefined &&
      shows(outputs, /continues after step 4, from the copies in memory; step 5 is repeated/),
  },
  {
    notebook: '10-accelerate-multinode',
    sentence: 'Only `machine_rank` differs',
    holds: (outputs) => shows(outputs, /^\[\s+\[\s+'machine_rank: 0',[^\]]+\]\s+\]$/),
  },
  {
    notebook: '10-accelerate-multinode',
    sentence: 'Two lines look important and do nothing',
    holds: (outputs) =>
      shows(outputs, /offload_param_device +cpu +none/) && shows(outputs, /zero3_init_flag +true +none/),
  },
  {
    notebook: '10-accelerate-multinode',
    sentence: 'The training does not fit',
    holds: (outputs) =>
      shows(outputs, /: does not fit\n/) && shows(outputs, /32 x A100-80G.*GB of 83\.8 GB: fits\n/),
  },
  {
    notebook: '11-graduate',
    sentence: 'losses, gradients and parameters agree up to rounding',
    holds: (_, notebook) =>
      titled(notebook, /^Losses, gradients and parameters of 3 steps differ by at most \d(\.\d)?e-[4-9]$/) !==
      undefined,
  },
  {
    notebook: '11-graduate',
    sentence: 'Both runs send the same bytes',
    holds: (outputs) => shows(outputs, /^Each rank receives the same bytes per step/),
  },
  {
    notebook: '11-graduate',
    sentence: 'The loss of step 1 is still equal; the gradients are not',
    holds: (outputs) => shows(outputs, /step: 1,\s+what: 'gradient'/),
  },
  {
    notebook: '12-fragments',
    sentence: 'The line above gives the measured ratios',
    holds: (outputs) =>
      shows(outputs, /FULL_SHARD ÷ DDP, median \(quartiles\): .*: (the sentence|no clear difference)/),
  },
  {
    notebook: '08-collectives',
    sentence: 'Each rank receives 6 chunks of 0.25 MB, all from the rank before it',
    holds: (_, notebook) => titled(notebook, /^Each rank receives 1\.5 MB, all of it from one/) !== undefined,
  },
  {
    notebook: '08-collectives',
    sentence: 'Each rank receives as many bytes as before, and all sums of integers are exactly equal',
    holds: (outputs) => shows(outputs, /ranks 0-3 agree\n0$/),
  },
  {
    notebook: '08-collectives',
    sentence:
      'so it is faster for small vectors, whose time is latency (in the measured ratio, both also have the time of a barrier). The ring sends fewer bytes per link, so it is faster for large vectors',
    holds: (outputs) => shows(outputs, /treeOverRing4KiB: 0\.\d, treeOverRing4MiB: [1-9].*\[ 6 \]/),
  },
  {
    notebook: '08-collectives',
    sentence:
      'PowerSGD and the top 2% receive about the same bytes, but the loss of PowerSGD is nearer to the loss with all gradients',
    holds: (outputs) =>
      outputs.some((text) => {
        const lossOf = (name: string): number =>
          Number(new RegExp(`${name}'?: ([\\d.]+)`).exec(text)?.[1] ?? Number.NaN);
        const [all, power, top] = [lossOf('all'), lossOf('PowerSGD'), lossOf('top 2%')];
        return all < power && power < top && lossOf('no feedback') < top;
      }),
  },
  {
    notebook: '13-your-own-model',
    sentence: 'How many bytes per step does a rank receive for parameters?',
    holds: (_, notebook) =>
      figuresOf(notebook).some(({ rows }) =>
        rows.some((row) => row.cause === 'param' && row.countPerStep === '5' && row.wireBytes === '237,056'),
      ),
  },
  {
    notebook: '14-images',
    sentence: 'its losses equal those of one process, except for rounding',
    holds: (_, notebook) =>
      titled(
        notebook,
        /^"BatchNorm" differs by up to 0\.\d+; the.* other 2 (runs )?(are equal|differ by at most \d(\.\d)?e-[67])$/,
      ) !== undefined,
  },
  {
    notebook: '14-images',
    sentence: 'Per step, DDP with BatchNorm takes 17 collectives',
    holds: (_, notebook) =>
      figuresOf(notebook).some(
        ({ rows }) =>
          rows.some(({ run, numCollectives }) => run === 'BatchNorm' && numCollectives === '17') &&
          rows.some(({ run, numCollectives }) => run === 'SyncBatchNorm' && numCollectives === '27'),
      ),
  },
  {
    notebook: '14-images',
    sentence: '2 · 56 + 5 numbers for all norms, 468 bytes',
    holds: (_, notebook) =>
      figuresOf(notebook).some(
        ({ rows }) =>
          rows.some(
            ({ op, countPerStep, bytes }) => op === 'allGather' && countPerStep === '5' && bytes === '468',
          ) &&
          rows.some(({ op, cause, bytes }) => op === 'allReduce' && cause === 'buffer' && bytes === '448'),
      ),
  },
  {
    notebook: '14-images',
    sentence: 'The validation losses of four ranks and of one process are equal',
    holds: (outputs) => shows(outputs, /^\[ '(\d\.\d+)', '\1' \]$/),
  },
  {
    notebook: '15-sft',
    sentence: 'The three answers of the new file are short now',
    holds: (outputs) =>
      shows(outputs, /a rank\?': 'A process\.'/) &&
      shows(outputs, /a shard\?': 'A part\.'/) &&
      shows(outputs, /ZeRO-1 shard\?': 'States\.'/),
  },
  {
    notebook: '15-sft',
    sentence: 'The other answers changed too',
    holds: (outputs) => !shows(outputs, /ZeRO-2 shard\?': 'States and gradients/),
  },
  {
    notebook: '15-sft',
    sentence: 'the added activations need more memory than LoRA saves in gradients and optimizer states',
    holds: (_, notebook) =>
      titled(notebook, /^"full" holds \d\.\d× the states of "lora"; its peak is 0\.\d× as high$/) !==
      undefined,
  },
];
