import { fileError } from './file-system';

/** File names of torch's pickles. */
export const PICKLE_NAME = /\.(pth|pt|bin|ckpt)$/i;
const ZIP_MAGIC = 'PK\u0003\u0004';
const LFS_MAGIC = 'version ';
/** Bytes at a file's beginning that are enough to recognize it. */
export const MAGIC_BYTES = 8;

/**
 * Refuses files that are not safetensors, which it recognizes by name and first bytes. Throws: IO that names the file
 * and says what to do: the line of Python that converts a torch pickle, or `git lfs pull`.
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

/** Whether bytes begin a pickle of protocol 2 to 5. Safetensors can begin with the same two bytes, but bytes 5 to 8 are 0. */
function beginsAsPickle(bytes: Uint8Array): boolean {
  const [first = 0, protocol = 0] = bytes;
  const isLength = bytes.subarray(4, MAGIC_BYTES).every((byte) => byte === 0);
  return first === 0x80 && protocol >= 2 && protocol <= 5 && !isLength;
}

/**
 * Returns the command that converts a torch pickle to a safetensors file beside it. The command joins names of nested
 * dictionaries with dots, drops an outer 'state_dict' or 'model', and copies tensors that share storage.
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

/** Returns a Python literal that a shell does not change within double quotes. */
function pythonText(text: string): string {
  const escaped = text.replace(/[\\'"$`!]/g, (letter) => `\\x${letter.charCodeAt(0).toString(16)}`);
  return `'${escaped}'`;
}
