import { FRAGMENTS } from '../../../config/fragments';
import { ShardlabError } from '../../../core/errors';
import type { Claim } from '../claim';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr, type SettledFinding } from '../finding';

/** The document's pieces of code: whether they run in PyTorch unchanged, and what they would do. */
export const WAN_CODE: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.code.fsdp'),
    expected: { verdict: 'off' },
    check: () =>
      code(
        'FSDP',
        'TypeError, twice',
        'checkpoint_wrapper is not an argument of FSDP, and transformer_auto_wrap_policy needs functools.partial with its classes. After both corrections the code wraps the stated layers.',
      ),
  },
  {
    claim: claimOf('wan.code.moe'),
    expected: { verdict: 'off' },
    check: () =>
      code(
        'expert = FSDP(expert, …)',
        'TypeError; without it, RuntimeError',
        'ignore_unused_parameters is not an argument. Without it the loop assigns wrappers only to its own variable, so the model calls the unwrapped experts; their parameters are sharded, and only the wrapper gathers them. The wrapping policy in the same code is valid.',
      ),
  },
  {
    claim: claimOf('wan.code.ac'),
    expected: { verdict: 'off' },
    check: () =>
      code(
        'checkpoint_wrapper',
        'TypeError in the first forward; without it, no effect',
        'checkpoint_wrapper passes offload_to_cpu to the layer, whose forward refuses it. The loop assigns only to its own variable, so nothing is checkpointed. apply_activation_checkpointing with a check function does what the document means.',
      ),
  },
  {
    claim: claimOf('wan.code.sparse'),
    expected: { verdict: 'undefined' },
    check: () =>
      code(
        'sparse_all_to_all',
        'ImportError: the function does not exist',
        'torch.distributed.algorithms._comm_hooks has no sparse_all_to_all in any version. The document may mean all_to_all_single with sizes by rank, or a hook that reduces only touched rows.',
        'undefined',
      ),
  },
  {
    claim: claimOf('wan.code.checkpoint'),
    expected: { verdict: 'off' },
    check: () =>
      code(
        'save_checkpoint',
        'hangs on save',
        "FSDP.optim_state_dict is a collective, but only rank 0 calls it, so rank 0 waits for the other ranks until the watchdog's timeout. Even if all ranks called it, rank 0 would save only its own shards.",
      ),
  },
];

/** What a fragment's reference says of code that does not work. */
const FAILS = /Error|fails|hangs|never existed/;

function code(name: string, by: string, why: string, word: 'off' | 'undefined' = 'off'): SettledFinding {
  const fragment = FRAGMENTS.find((each) => each.name === name && each.document === WAN);
  if (fragment === undefined) {
    throw new ShardlabError('CHECK', `no fragment of ${WAN} is called '${name}'; see sl.lookup()`);
  }
  return {
    verdict: holdsOr(!FAILS.test(fragment.inTheOriginal), word),
    unit: null,
    by,
    why,
    evidence: { kind: 'formula', source: `sl.lookup('${name}').inTheOriginal` },
  };
}

const WAN: Claim['document'] = 'wan22-fsdp';
