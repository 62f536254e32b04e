import { fileError } from './file-system';

/** Endings of the file names of torch's pickles. */
export const PICKLE_NAME = /\.(pth|pt|bin|ckpt)$/i;
const ZIP_MAGIC = 'PK\u0003\u0004';
const LFS_MAGIC = 'version ';
/** Number of bytes at a file's beginning that are enough to recognize the file's format. */
export const MAGIC_BYTES = 8;

/**
 * Refuses torch pickles and Git-LFS pointers, which it recognizes by the file's name and first bytes. Throws: IO, with the
 * file's name and a remedy: the command that converts a torch pickle, or `git lfs pull`.
 */
export function refuseOtherFormats(file: string, firstBytes: Uint8Array): void {
  const magic = Buffer.from(firstBytes).toString('latin1', 0, MAGIC_BYTES);
  if (magic === LFS_MAGIC) {
    throw fileError(`${file} is a Git-LFS pointer, not the file itself; run \`git lfs pull\` in its folder`, {
      file,
    });
  }
  if (!PICKLE_NAME.test(file) && !magic.startsWith(ZIP_MAGIC) && !beginsAsPickle(firstBytes)) return;
  throw fileError(
    `${file} is a torch pickle, which can run any code when it is read, so it is not read here; ` +
      `convert it on a machine with PyTorch: ${conversionLine(file)}`,
    { file },
  );
}

/**
 * Whether bytes begin a pickle of protocol 2 to 5. A safetensors file can begin with the same two bytes, but its bytes 5 to 8
 * are 0.
 */
function beginsAsPickle(bytes: Uint8Array): boolean {
  const [first = 0, protocol = 0] = bytes;
  const isLength = bytes.subarray(4, MAGIC_BYTES).every((byte) => byte === 0);
  return first === 0x80 && protocol >= 2 && protocol <= 5 && !isLength;
}

/**
 * Returns the command that converts a torch pickle to a safetensors file beside it. The command takes the dictionary under
 * 'state_dict' or 'model', if there is one, omits values that are not tensors, and copies each tensor, because safetensors does
 * not allow shared storage.
 */
export function conversionLine(file: string): string {
  const target = `${file.replace(PICKLE_NAME, '')}.safetensors`;
  const code = [
    'import torch, safetensors.torch as s',
    `d=torch.load(${pythonText(file)}, map_location='cpu', weights_only=True)`,
    "d=d.get('state_dict', d.get('model', d))",
    `s.save_file({k: v.clone().contiguous() for k, v in d.items() if torch.is_tensor(v)}, ${pythonText(target)}, metadata={'format': 'pt'})`,
  ];
  return `python -c "${code.join('; ')}"`;
}

/** Returns a Python string literal that a shell does not change within double quotes. */
function pythonText(text: string): string {
  const escaped = text.replace(/[\\'"$`!]/g, (letter) => `\\x${letter.charCodeAt(0).toString(16)}`);
  return `'${escaped}'`;
}
