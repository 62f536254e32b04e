import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { COMMANDS } from '../../src/cli/commands';
import { ROOT } from './sources';

const FORMS = '.github/ISSUE_TEMPLATE';

interface Form {
  readonly name: string;
  readonly description: string;
  readonly body: readonly {
    readonly type: 'markdown' | 'textarea' | 'input';
    readonly id?: string;
    readonly attributes: { readonly label?: string; readonly value?: string };
    readonly validations?: { readonly required: boolean };
  }[];
}

interface Package {
  readonly version: string;
  readonly license: string;
  readonly scripts: Readonly<Record<string, string>>;
}

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const manifest = JSON.parse(read('package.json')) as Package;

test('the files that a community expects are there', () => {
  const files = [
    'SECURITY.md',
    'CITATION.cff',
    'CODE_OF_CONDUCT.md',
    'CONTRIBUTING.md',
    'LICENSE',
    'llms.txt',
    '.github/pull_request_template.md',
  ];
  assert.deepEqual(
    files.filter((file) => !existsSync(join(ROOT, file))),
    [],
  );
});

test('the citation has the version and the licence of the package', () => {
  const citation = parse(read('CITATION.cff')) as Record<string, unknown>;
  assert.equal(citation['cff-version'], '1.2.0');
  assert.equal(citation.version, manifest.version);
  assert.equal(citation.license, manifest.license);
  for (const key of ['message', 'title', 'authors']) assert.ok(citation[key] !== undefined, key);
});

test('issue forms have what GitHub requires: labels, ids that differ, and at least one field', () => {
  const names = readdirSync(join(ROOT, FORMS)).sort();
  assert.deepEqual(names, ['bug.yml', 'config.yml', 'feature.yml', 'wrong-number.yml']);
  for (const file of names.filter((each) => each !== 'config.yml')) {
    const { name, description, body } = parse(read(join(FORMS, file))) as Form;
    assert.ok(name && description, file);
    const fields = body.filter(({ type }) => type !== 'markdown');
    assert.ok(fields.length > 0, file);
    for (const { id, attributes } of fields) assert.ok(id && attributes.label, file);
    assert.equal(new Set(fields.map(({ id }) => id)).size, fields.length, file);
  }
});

test('a report of a bug asks for the doctor and the cell, and one of a wrong number for source and config', () => {
  const required = (file: string): readonly (string | undefined)[] =>
    (parse(read(join(FORMS, file))) as Form).body
      .filter(({ validations }) => validations?.required)
      .map(({ id }) => id);
  assert.deepEqual(required('bug.yml'), ['happened', 'cell', 'doctor', 'version']);
  assert.match(read(join(FORMS, 'bug.yml')), /npx shardlab doctor --json/);
  assert.deepEqual(required('wrong-number.yml'), ['number', 'right', 'source', 'config', 'command']);
});

test('every command that llms.txt, the forms and the security page name exists', () => {
  const known = new Set<string>(COMMANDS.map(({ name }) => name));
  const texts = [
    'llms.txt',
    'SECURITY.md',
    ...readdirSync(join(ROOT, FORMS)).map((file) => join(FORMS, file)),
  ];
  for (const path of texts) {
    const text = read(path);
    for (const [, command = ''] of text.matchAll(/npx shardlab ([a-z]+)/g)) {
      assert.ok(known.has(command), `${path}: npx shardlab ${command}`);
    }
    for (const [, script = ''] of text.matchAll(/npm run ([\w:]+)/g)) {
      assert.ok(script in manifest.scripts, `${path}: npm run ${script}`);
    }
  }
});

test('llms.txt names every page of docs', () => {
  const text = read('llms.txt');
  const pages = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'));
  assert.deepEqual(
    pages.filter((page) => !text.includes(`(docs/${page})`)),
    [],
  );
});
