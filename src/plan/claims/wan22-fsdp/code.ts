import { FRAGMENTS } from '../../../config/fragments';
import { ShardlabError } from '../../../core/errors';
import type { Claim } from '../claim';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import type { SettledFinding } from '../finding';

/** The document's pieces of code: whether they run in PyTorch as they stand, and what they would do. */
export const WAN_CODE: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.code.fsdp'),
    expected: { verdict: 'off' },
    check: () =>
      code(
        'FSDP',
        'TypeError, twice',
        'checkpoint_wrapper is no argument of FSDP, and a bare transformer_auto_wrap_policy lacks functools.partial with its classes. Without the one and with the other it wraps what it says.',
      ),
  },
  {
    claim: claimOf('wan.code.moe'),
    expected: { verdict: 'off' },
    check: () =>
      code(
        'expert = FSDP(expert, …)',
        'TypeError; else no effect',
        'ignore_unused_parameters is no argument. Without it the loop assigns wrappers to its own variable: the model keeps its unwrapped experts. The wrapping policy beside it is legal.',
      ),
  },
  {
    claim: claimOf('wan.code.ac'),
    expected: { verdict: 'off' },
    check: () =>
      code(
        'checkpoint_wrapper',
        'TypeError in the first forward; else no effect',
        'checkpoint_wrapper passes offload_to_cpu on to the layer, whose forward refuses it; and the loop assigns to its own variable, so nothing is checkpointed. apply_activation_checkpointing with a check function does what is meant.',
      ),
  },
  {
    claim: claimOf('wan.code.sparse'),
    expected: { verdict: 'off' },
    check: () =>
      code(
        'sparse_all_to_all',
        'ImportError',
        'torch.distributed.algorithms._comm_hooks never had a sparse_all_to_all, in any version. What is meant is all_to_all_single with sizes by rank, or a hook that reduces touched rows.',
      ),
  },
  {
    claim: claimOf('wan.code.checkpoint'),
    expected: { verdict: 'off' },
    check: () =>
      code(
        'save_checkpoint',
        'hangs on save',
        "FSDP.optim_state_dict is a collective and only rank 0 calls it: it waits for the others until the watchdog's time is up. Were it called by all, rank 0 would still save its own shards alone.",
      ),
  },
];

function code(name: string, by: string, why: string): SettledFinding {
  const fragment = FRAGMENTS.find((one) => one.name === name && one.document === WAN);
  if (fragment === undefined) {
    throw new ShardlabError('CHECK', `no fragment of ${WAN} is called '${name}'; see sl.lookup()`);
  }
  return {
    verdict: 'off',
    unit: null,
    by,
    why,
    evidence: { kind: 'formula', source: `sl.lookup('${name}').inTheOriginal` },
  };
}

const WAN: Claim['document'] = 'wan22-fsdp';
