import { findFragment } from '../../../config/lookup';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr } from '../finding';
import { changeCell } from '../plan-cell';

const FLAGS = 'swift sft --parallel_method …';

/** Returns a request for the command's model on one node. */
function qwen7b(parallel: PlanRequestInput['parallel']): PlanRequestInput {
  return {
    model: 'qwen-7b',
    seq: 2048,
    hardware: 'A100-80G',
    gpus: 8,
    parallel,
    batch: { global: 64, micro: 1 },
  };
}
const THREE_D = qwen7b({ tp: 4, pp: 2, strategy: 'NO_SHARD', stack: 'megatron', sequenceParallel: true });
const SHARDED = qwen7b({ strategy: 'FULL_SHARD', stack: 'fsdp2' });

/** The document's commands, and its description of ms-swift. */
export const SWIFT_COMMANDS: readonly ClaimEntry[] = [
  {
    claim: claimOf('swift.cli.megatron'),
    expected: { verdict: 'undefined' },
    check: () => ({
      verdict: holdsOr(areTodaysFlags(), 'undefined'),
      unit: null,
      by: 'ms-swift has no such flags',
      why:
        'ms-swift has a separate command for Megatron: megatron sft --model … --tensor_model_parallel_size 4 ' +
        '--pipeline_model_parallel_size 2. TP 4 x PP 2 is 8 GPUs for one replica.',
      evidence: { kind: 'run', source: `sl.lookup('${FLAGS}')` },
    }),
  },
  {
    claim: claimOf('swift.cli.fsdp'),
    expected: { verdict: 'undefined' },
    check: () => ({
      verdict: holdsOr(areTodaysFlags(), 'undefined'),
      unit: null,
      by: 'ms-swift has no such flags',
      why:
        "The document means the arguments of transformers, which swift sft accepts: --fsdp 'full_shard auto_wrap' --fp16 true. Llama 3 was trained in " +
        'bfloat16, which needs no loss scale.',
      evidence: { kind: 'run', source: `sl.lookup('${FLAGS}')` },
    }),
  },
  {
    claim: claimOf('swift.arith.cli'),
    expected: { verdict: 'contradicts itself', value: 12, within: 4 },
    check(lab) {
      const slower = 100 * (lab.predict(THREE_D).seconds.value / lab.predict(SHARDED).seconds.value - 1);
      return {
        verdict: 'contradicts itself',
        judged: true,
        predicted: slower,
        unit: '% longer than FULL_SHARD',
        by: 'a 7B model with TP and PP, where the advice (swift.advice.small) says FSDP below 10B',
        why:
          `Qwen-7B has 7.7B parameters. TP 4 x PP 2 and FULL_SHARD both fit on 8 A100; TP 4 x PP 2 is predicted to take ${slower.toFixed(0)}% longer ` +
          'for 64 sequences of 2048 tokens.',
        evidence: { kind: 'prediction', source: changeCell(THREE_D, SHARDED, 'seconds.value') },
      };
    },
  },
  {
    claim: claimOf('swift.scope'),
    expected: { verdict: 'holds' },
    check: () => ({
      verdict: 'holds',
      judged: true,
      unit: null,
      by: '',
      why: 'The README of ms-swift at the end of 2025 states the same numbers, pre-training to DPO, KTO and reward models, and vLLM, LMDeploy and EvalScope. It counts model names, so the number grows with every release.',
      evidence: {
        kind: 'run',
        source:
          '$ pip install ms-swift && python -c "from swift.llm import MODEL_MAPPING as m; print(len(m), sum(x.is_multimodal for x in m.values()))"',
      },
    }),
  },
];

function areTodaysFlags(): boolean {
  return !findFragment(FLAGS).inTheOriginal.includes("not today's flags");
}
