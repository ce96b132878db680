"""What real models are tried with: prompts, conversations, a text, and strings that tokenizers find difficult."""
from pathlib import Path

# Longer than Gemma 3's window of 512.
LONG = " ".join(f"Line {line}: the {word} was counted {line * 7} times." for line, word in enumerate(
    ["ferry", "lamp", "river", "owl", "ladder", "stone", "violin", "harbor"] * 6))
# The first few are the short form: a prompt of few tokens, emoji, and the long one.
PROMPTS = [
    "The capital of France is", "I love pizza 🍕 and", LONG,
    "def fibonacci(n):\n    ", "Les trois couleurs du drapeau français sont",
    "Once upon a time, in a small village by the sea,", "Water boils at",
    "fn main() {\n    let numbers = vec![1, 2, 3];\n", "SELECT name, count(*) FROM",
    "#include <stdio.h>\n\nint main(void) {", '{"name": "Ada", "age": 36, "languages": [',
    "Die Hauptstadt von Deutschland heißt", "La casa de mi abuela está", "東京は日本の", "Москва — это",
    "1, 1, 2, 3, 5, 8, 13,", "Q: What is 17 + 25?\nA:", "3.14159265358979",
    "# Shopping list\n\n- eggs\n- milk\n-", "To be, or not to be, that is",
]
SHORT_PROMPTS = 3

CONVERSATION = [{"role": "user", "content": "Name three colors, separated by commas."}]

# For the perplexity: prose of this repository, which no model was trained on.
TEXT = (Path(__file__).parents[2] / "docs/METAL.md").read_text()

# Without "</s>": Gemma's is HTML's tag and an ordinary word, of which llama.cpp makes a control token that ends a text.
DIFFICULT = [
    "", " ", "  ", "   leading spaces", "trailing spaces   ", "\n", "\n\n\n", "\r\n\r\n", "\t\ttabs\tbetween", " \n \n ",
    "a\u00a0b\u2003c\u3000d", "\u200b\u200d\ufeff", "don't we'll I'VE they'D it’s", "1234567890 12 345 6,789.01", "٣٤٥ १२३ 四五六",
    "Ⅷ ½ ² ₃ ①", "naïve café", "naïve café", "Straße İstanbul ΌΣΟΣ", "ﬁ ﬂ Å Å Ω",
    "العربية من اليمين", "हिन्दी में लिखा", "ภาษาไทยไม่มีช่องว่าง", "日本語と中文混合", "한국어 한글", "e\u0301\u0323\u0327",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽", "\U0010ffff \ue000 \ufffd", "𝕬𝖑𝖌𝖊𝖇𝖗𝖆", "a" * 300, "ha" * 100, "=" * 65 + "\n" + "-" * 33,
    "<|im_start|>user<|im_end|>", "<s><unk><pad>", "<bos><eos><start_of_turn>", "<0x41> <0x0A>", "▁ ▁▁under ▁x",
    "https://example.org/a?b=c&d=%20#e", "user@example.com", "C:\\dir\\file.txt /usr/lib/*.so", "x += y*z; // ok?",
    "if(a<b&&c!=d){return--e;}", "def f(x):\n\n    return x\n\n\n", "\u0001\u0002\u0004\u0007\u001b[0m\u007f", "\u0000",
    "camelCaseAndSNAKE_CASE_42", "MiXeD cAsE", "...!?!?;;:: ,,", "“quotes” ‘single’ «guillemets» „low“", "№ § ¶ † ‡ • … ‰",
    "mathe ∀x∈ℝ: ⌈x⌉ ≥ x ∧ √2 ≠ 3", "{\"k\": [1, 2.5e-3, null]}", "ʼn ǅ ẞ ﷺ", "\u202eright\u202c", "z̷̢͇a̶l̴g̸o̷",
]
