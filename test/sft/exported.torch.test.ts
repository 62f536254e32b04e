import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { findTorch } from '../../src/torch/find-python';
import { shardlab } from '../cli/run-command';
import { launchFor } from '../session/job-fixture';
import { CHATS, LLAMA, TOKENIZER } from './instruction-data';

const folder = mkdtempSync(join(tmpdir(), 'shardlab-exported-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const PROMPT = [401, 85, 83, 258, 199];
const NEW_TOKENS = 12;

/** Prints the greedy tokens of a model of transformers, with adapters of PEFT if a folder has them. */
const GREEDY = `
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
base, adapter, prompt, tokens = json.loads(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(base)
if adapter is not None:
    from peft import PeftModel
    model = PeftModel.from_pretrained(model, adapter)
ids = torch.tensor([prompt])
made = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0)
chat = AutoTokenizer.from_pretrained(adapter or base).apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
print(json.dumps([made[0].tolist(), chat]))
`;

function greedy(python: string, base: string, adapter: string | null): [number[], string] {
  const asked = JSON.stringify([base, adapter, PROMPT, NEW_TOKENS]);
  const out = execFileSync(python, ['-c', GREEDY, asked], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return JSON.parse(out.trim().split('\n').at(-1) ?? '');
}

function has(python: string, module: string): boolean {
  try {
    execFileSync(python, ['-c', `import ${module}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

async function sft(args: readonly string[]): Promise<Record<string, Record<string, string>>> {
  const training = ['--dataset', CHATS, '--max_steps', '12', '--learning_rate', '3e-2', '--json'];
  const { status, stdout, stderr } = await shardlab(['sft', ...training, ...args], { cwd: folder, env: {} });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

for (const engine of ['wasm', 'torch'] as const) {
  test(`the exported folders give the greedy tokens of transformers and PEFT: ${engine}`, async (context) => {
    const python = findTorch(undefined);
    if (!has(python, 'transformers, jinja2')) return context.skip(`${python} has no transformers`);
    const place = ['--engine', engine, '--nproc', '2', '--lora_dropout', '0'];
    const model = ['--model', JSON.stringify(LLAMA), '--tokenizer', TOKENIZER];
    const full = await sft([...place, ...model, '--train_type', 'full', '--output_dir', `${engine}-full`]);
    const base = full.folders?.last ?? '';
    const adapted = await sft([
      ...[...place, '--model', base, '--max_length', '64', '--lora_alpha', '64'],
      ...['--merge_lora', 'true', '--output_dir', `${engine}-lora`],
    ]);
    const { last: adapter = '', 'last-merged': merged = '' } = adapted.folders ?? {};
    const job = await launchFor(context, { ranks: 1 });
    const oursOf = async (from: string): Promise<number[]> => {
      const run = await job.train({ model: { from }, data: 'synthetic' });
      const ids = await run.sample(PROMPT, { tokens: NEW_TOKENS, temperature: 0 });
      await run.dispose();
      return ids;
    };
    const [ofBase, ofMerged] = [await oursOf(base), await oursOf(merged)];
    assert.equal(ofMerged.length, PROMPT.length + NEW_TOKENS);
    assert.notDeepEqual(ofMerged, ofBase, 'adapters change the tokens');
    const [theirs, chat] = greedy(python, merged, null);
    assert.deepEqual(theirs, ofMerged);
    assert.equal(chat, '<|im_start|>user\nHi<|im_end|>\n');
    assert.deepEqual(greedy(python, base, null)[0], ofBase);
    if (!has(python, 'peft'))
      return context.diagnostic(`${python} has no peft, which would load the adapters`);
    assert.deepEqual(greedy(python, base, adapter)[0], ofMerged);
  });
}
