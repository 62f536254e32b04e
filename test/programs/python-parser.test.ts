import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pythonSources } from '../../src/programs/read-python';
import { pythonCalls } from '../../src/programs/registry/registry';
import { repositoryRoot, testData } from '../support/paths';

// The reader finds the calls that Python's own parser finds.

const folder = mkdtempSync(join(tmpdir(), 'shardlab-ast-'));
after(() => rmSync(folder, { recursive: true, force: true }));

type Call = readonly [line: number, name: string, keywords: readonly string[]];

function byPython(files: readonly string[]): Readonly<Record<string, readonly Call[]>> {
  const names = JSON.stringify(Object.keys(pythonCalls().keys));
  const script = testData('dialects', 'list_calls.py');
  // The script prints this type.
  return JSON.parse(execFileSync('python3', [script, names, ...files], { encoding: 'utf8' }));
}

/** A call that the reader finds, but does not read: only the first of several ways to wrap a model is read. */
const UNREAD = '(not read)';

/** The calls that the reader finds, each with its keywords and the parameters that its positions name. */
function byReader(file: string): readonly Call[] {
  return pythonSources(readFileSync(file, 'utf8'), file).flatMap(
    ({ dialect, entries: [head, ...given] }): Call[] => {
      if (head === undefined) return [];
      const isUnread = dialect.name !== pythonCalls().name && given.length === 0;
      const name = isUnread ? UNREAD : (head.path[0] ?? '');
      return head.path.length === 1 ? [[head.line, name, given.map(({ path }) => path.at(-1) ?? '')]] : [];
    },
  );
}

function assertSame(files: readonly string[]): number {
  const python = byPython(files);
  let count = 0;
  for (const file of files) {
    const found = byReader(file);
    for (const [line, name, keywords] of python[file] ?? []) {
      const same = found.filter((call) => call[0] === line && [name, UNREAD].includes(call[1]));
      assert.ok(same.length > 0, `${file}:${line}: ${name} is not found`);
      const given = new Set(same.flatMap((call) => call[2]));
      const isUnread = same.some((call) => call[1] === UNREAD);
      const missing = keywords.filter((keyword) => !given.has(keyword) && keyword !== 'module');
      assert.deepEqual(isUnread ? [] : missing, [], `${file}:${line}: ${name}`);
      count += 1;
    }
  }
  return count;
}

test("the calls of the project's own scripts are those of Python's parser", () => {
  const root = repositoryRoot();
  const files = [
    'src/python/shardlab_torch/fsdp1.py',
    'src/cli/bench/torch_gpt_bench.py',
    'test/data/by_hand_reference.py',
    'test/data/lora_reference.py',
    'test/data/sft_reference.py',
    'test/data/own_model_reference.py',
    'test/data/optimizer_reference.py',
  ].map((file) => join(root, file));
  assert.ok(assertSame(files) > 5);
});

const FORMS = `import torch
import torch.distributed.fsdp as fsdp
import torch.optim as optim
from accelerate import Accelerator as Acc
from torch.distributed.fsdp import (
    FullyShardedDataParallel as FSDP,  # the class
    MixedPrecision,
)
from torch.optim import AdamW, SGD

def made(model: FSDP, optimizer: AdamW = None, *, scale: float = 1.0, **more: SGD) -> FSDP:
    """Text with a call: AdamW(x, lr=1)."""
    return FSDP(model, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
                limit_all_gathers=True)

class Trainer:
    accelerator: Acc

    def __init__(self, accelerator: "Acc | None" = None) -> None:
        self.accelerator: Acc = accelerator or Acc(mixed_precision="bf16", gradient_accumulation_steps=2)

@torch.no_grad()
def optimizers(parameters, make=lambda kind: kind):
    first = AdamW(parameters, lr=1e-3, weight_decay=0.1)
    second = [SGD(p, lr=(0.1 if p else 0.2), momentum=0.9) for p in parameters]
    third = make(optim.Adam(parameters, lr=f"{1}(" and 1e-4))
    return first, second, third

if True: model = made(fsdp.FullyShardedDataParallel(torch.nn.Linear(1, 1), use_orig_params=True))
try:
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
finally:
    pass
`;

test('calls are found beside annotations, defaults, decorators, comprehensions, texts and nested calls', () => {
  const file = join(folder, 'forms.py');
  writeFileSync(file, FORMS);
  assert.equal(assertSame([file]), 8);
});
