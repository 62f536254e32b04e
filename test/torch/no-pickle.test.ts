import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../support/paths';

/** Calls that unpickle what another process or a file says, and stores and rendezvous that listen without a key. */
const FORBIDDEN: readonly (readonly [RegExp, string])[] = [
  [
    /\b(all_gather|gather|broadcast|scatter|send|recv)_object(_list)?\s*\(/,
    'use json_messages: torch unpickles objects',
  ],
  [/\bimport (c?pickle|dill|cloudpickle|marshal|shelve)\b|\bpickle\.loads?\(/i, 'a pickle can run any code'],
  [/\btorch\.load\((?!.*weights_only=True)/, 'torch.load unpickles; read safetensors'],
  [/torch\.distributed\.checkpoint/, 'its ranks exchange pickles; Writer and Reader in checkpoint.py do not'],
  [/[^.\w]PipelineStage\((?!PipelineStage)/, 'its neighbours exchange pickles; use JsonStage'],
  [/\bTCPStore\(|env:\/\/|tcp:\/\//, 'it listens on all interfaces without a key; use LinkStore'],
  [/torch\.distributed\.run"|torchrun"/, 'its rendezvous listens without a key; use shardlab_torch.agent'],
];

test('the program of Python ranks unpickles nothing, and opens no store on a port', () => {
  const folder = join(repositoryRoot(), 'src', 'python', 'shardlab_torch');
  const files = readdirSync(folder).filter((name) => name.endsWith('.py'));
  assert.ok(files.length > 50);
  for (const file of files) {
    for (const [i, line] of readFileSync(join(folder, file), 'utf8').split('\n').entries()) {
      for (const [pattern, remedy] of FORBIDDEN)
        assert.doesNotMatch(line, pattern, `${file}:${i + 1}: ${remedy}`);
    }
  }
});

test('the search finds each forbidden call', () => {
  const lines = [
    'dist.all_gather_object(broken, mine)',
    'dist.broadcast_object_list (message, src=0)',
    'import pickle',
    'torch.load(path)',
    'import torch.distributed.checkpoint as dcp',
    '[PipelineStage(module, 0, 2, device)]',
    'store = dist.TCPStore(host, port, size)',
    'run = ["-m", "torch.distributed.run"]',
  ];
  for (const line of lines)
    assert.ok(
      FORBIDDEN.some(([pattern]) => pattern.test(line)),
      line,
    );
  assert.ok(!FORBIDDEN.some(([pattern]) => pattern.test('torch.load(path, weights_only=True)')));
});
