import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PORT, slurmFile, torchrunFile } from '../../../src/programs/export/launch-files';
import type { BundleFacts } from '../../../src/programs/export/target';
import { repositoryRoot } from '../../support/paths';

const PAGE = readFileSync(join(repositoryRoot(), 'docs', 'how-to', 'clusters.md'), 'utf8');
// Launch files read only these facts.
const FACTS = { machines: 2, gpusPerMachine: 8, lines: [] as BundleFacts['lines'] } as BundleFacts;

test('the launch commands of the page on clusters are those that run.export writes', () => {
  const blocks = [...PAGE.matchAll(/```bash\n([\s\S]*?)```/g)].map(([, text = '']) => text);
  const files = [torchrunFile(FACTS), slurmFile(FACTS)].map(({ text }) => text);
  const [usage = '', ...commands] = blocks;
  assert.equal(commands.length, 2);
  for (const command of commands)
    assert.ok(
      files.some((file) => file.includes(command)),
      command,
    );
  const [how = ''] = /MAIN=\S+ \.\/launch\.sh/.exec(files[0] ?? '') ?? [];
  assert.ok(how !== '' && usage.includes('./launch.sh 0') && usage.includes('./launch.sh 1'));
  assert.ok(PAGE.includes(`on port ${PORT}`));
});

test('the page says which parts need hardware, and that only ranks of PyTorch run on several hosts', () => {
  for (const part of ['torchrun', 'Slurm', 'Kubernetes'])
    assert.match(PAGE, new RegExp(`^## .*${part} \\(needs hardware\\)$`, 'm'));
  assert.match(PAGE, /only ranks of PyTorch run on several hosts/);
});
