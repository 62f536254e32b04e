import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { type BundleFolder, messageOf } from './bundle-folder';
import { type Finding, failed, notChecked, passed } from './finding';

/** Checks what needs no Python: that all files exist, and that JSON, YAML and shell scripts can be read. */
export function checkFiles(bundle: BundleFolder): readonly Finding[] {
  return [...checkPresence(bundle), ...bundle.names.flatMap((name) => checkSyntax(bundle.path, name))];
}

/** Checks that each file is there that REPORT.md lists. */
function checkPresence({ path, names }: BundleFolder): readonly Finding[] {
  if (!names.includes('REPORT.md')) return [];
  const text = readFileSync(join(path, 'REPORT.md'), 'utf8');
  const listed = /^For \d+ ranks\. Files: (.*)\.$/m.exec(text)?.[1]?.split(', ') ?? [];
  const missing = listed.filter((name) => !existsSync(join(path, name)));
  if (missing.length === 0)
    return [passed('files', 'REPORT.md', `lists ${listed.length} files, and all are here`)];
  return missing.map((name) =>
    failed('files', name, 'is not here, but REPORT.md lists it; copy it here, or export the bundle again'),
  );
}

function checkSyntax(path: string, name: string): readonly Finding[] {
  if (/\.json$/.test(name))
    return [reading(name, 'JSON', () => JSON.parse(readFileSync(join(path, name), 'utf8')))];
  if (/\.ya?ml$/.test(name)) return [reading(name, 'YAML', () => readYaml(join(path, name)))];
  return /\.(sh|sbatch)$/.test(name) ? [checkShell(path, name)] : [];
}

function readYaml(file: string): void {
  for (const { errors } of parseAllDocuments(readFileSync(file, 'utf8')))
    if (errors[0] !== undefined) throw errors[0];
}

function reading(name: string, kind: string, read: () => unknown): Finding {
  try {
    read();
    return passed('syntax', name, `is ${kind}`);
  } catch (error) {
    return failed('syntax', name, `is not ${kind}: ${messageOf(error)}; correct it`);
  }
}

function checkShell(path: string, name: string): Finding {
  const { error, status, stderr } = spawnSync('bash', ['-n', name], { cwd: path, encoding: 'utf8' });
  if (error !== undefined) return notChecked('syntax', name, 'there is no bash on this machine');
  if (status === 0) return passed('syntax', name, 'is a script of bash');
  const [, line, reason = stderr.trim()] = /line (\d+): (.*)/.exec(stderr) ?? [];
  const place = line === undefined ? name : `${name}:${line}`;
  return failed('syntax', place, `bash does not read it: ${reason}; correct this line`);
}
