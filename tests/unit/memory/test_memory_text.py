"""What is masked, what is left alone, and what is refused."""

from datetime import datetime

import numpy as np
import pytest

from evolvent import Memory
from evolvent.core.errors import BadInput
from evolvent.memory.secrets import MASK, mask_secrets
from evolvent.memory.text import clean_text, content_hash, finite

SECRETS = [
    "sk-" + "aB3" * 10,
    "sk-ant-api03-" + "x9Y" * 12,
    "ghp_" + "a1B2c3D4" * 5,
    "github_pat_" + "11ABC_" * 6,
    "AKIA" + "ABCD1234" * 2,
    "AIza" + "Sy_x-9" * 6,
    "xoxb-" + "123456-abc",
    "hf_" + "aBcD" * 8,
    "npm_" + "aB3x" * 9,
    "eyJhbGciOiJIUzI1NiJ9xx.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_masked_and_the_rest_is_kept(secret):
    assert mask_secrets(f"before {secret} after") == f"before {MASK} after"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("api_key=" + "q" * 20, "api_key=" + MASK),
        ('{"password": "' + "hunter2-hunter2" + '"}', '{"password": "' + MASK + '"}'),
        ("Authorization: Bearer " + "t" * 30, "Authorization: Bearer " + MASK),
        ("postgresql://me:pass1234@host/db", f"postgresql://me:{MASK}@host/db"),
    ],
)
def test_named_values(text, kept):
    assert mask_secrets(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM flights WHERE carrier='UA' AND password IS NULL AND token = 5",
        "the password is checked by the server; a secret: never tell",
        "see https://example.org/a:b@c and sk-short, commit 1b5cb5dabc0123456789abcdef0123456789abcd",
        "task-oriented ask-anything risk-adjusted-return-on-capital",
        "How many red-eye flights left Newark in May?",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert mask_secrets(text) == text


# «…» marks what must be masked; everything else must stay as it is
LITERALS = [
    'password="«hunter2»"', "password = '«correct-horse»'", 'db.connect(user="me", password="«s3cr3tpw»")',
    'PASSWORD: str = "«hunter2x»"', 'api_key: Final[str] = "«a1b2c3d4e5»"', "self.password = '«pa55word!»'",
    'config["password"] = "«hunter22»"', "os.environ['API_KEY'] = '«abc123def456»'",
    'os.environ.get("API_KEY", "«abc123def456»")', 'getenv("DB_PASSWORD", default) or "x"; pwd = "«qwertz12»"',
    '{"password": "«hunter2»", "user": "me"}', '{\\"api_key\\": \\"«abcd1234efgh»\\"}',
    "password: «hunter2»", "Password: «Tr0ub4dor&3»", 'password="«hunter2\\"x»"', "password=«a1b2c3d4»&user=me",
    "  api_key: «a1b2c3d4e5f6» # rotated", 'secret_key: "«x9y8z7w6v5»"',
    "export DB_PASSWORD=«swordfish»", "PASSWORD=«letmein» ./run.sh", "API_KEY=«abcdefgh»\nDEBUG=1",
    "https://api.example.org/v1?api_key=«abc123def456»&page=2", "postgresql://me:«pass1234»@host/db",
    "redis://:«pw12345»@localhost:6379/0", "git clone https://user:«tok3nvalue»@github.com/a/b",
    "Authorization: Bearer «abcdef0123456789»", "-H 'Authorization: Bearer «a1.b2-c3_d4e5f6»'",
    "Authorization: Basic «dXNlcjpwYXNz12345»", "mysql --password=«hunter2x» -u root", "tool --api-key «abc123def»",
    'token = "«9f8e7d6c5b4a39281706»"', "access_token=«Zx81Qw72Er63»", 'clientSecret: "«p4ssphr4se99»"',
    'if password == "«hunter2x»":', "const apiKey = `«k3yk3yk3y123»`;", "passwd := \"«geheim123»\"",
    "'password' => '«hunter2x»',", 'String password = "«tr0ub4dor»";', "password=12345".replace("12345", "«12345678»"),
    "password=«s3cr3t!»", "log in with password: «s3cr3t!» first", 'passwd: "«correct horse battery staple»"',
    "passphrase = '«violet anchor drum tulip seven»'", "curl -u bob:«hunter22» https://x",
    "curl -s -u 'bob:«hunter22»' a", "curl --user=bob:«hunter22» x", "sshpass -p '«hunter22»' ssh a@b",
    "mysqldump --port=3306 -P3306 -p«hunter22» db",
    '{"pwd": "«correct-horse-battery-staple»"}', 'password="«letmein»"', "passwd='«qwertz»'",
    "docker login -u ann -p «S3cr3tP4ss» reg.io", "Passwort: «S3cr3tP4ss!»", 'kennwort = "«S3cr3tP4ss»"',
    "mot de passe: «S3cr3tP4ss!»", "パスワード：«S3cr3tP4ss!»", "Set-Cookie: session=«abcdef0123456789»; Path=/",
    "https://hooks.slack.com/" + "«services/T00000000/B00000000/abcdefghijklmnop»",
    "AccountName=x;AccountKey=" + "«" + "abc123DEF4" * 5 + "==»" + ";EndpointSuffix=core",
    "send «SG." + "abcdefghij12345678901." + "qrstuvwxyz" * 4 + "123»", "«pypi-AgEIcHlwaS5vcmcC" + "JGFiY2RlZmdo»",
    "«dop_v1_" + "0123456789abcdef0123456789abcdef»", "«ya29." + "a0AfH6SMBabcdefghijklmnop»",
    "«AGE-SECRET-KEY-1" + "QQQQQQQQQQQQQQQQQQQQQQQQ»", "«xapp-1-A0000-" + "123-abcdef0123456789»",
]  # fmt: skip
CODE = [
    "password=getpass.getpass()", 'password = getpass("Password: ")', 'password=os.environ["DB_PASSWORD"]',
    'api_key = os.getenv("OPENAI_API_KEY")', 'password = config.get("password")', 'config["password"]', "password=None",
    "def login(user, password: str, token: str | None = None) -> bool:", "password: Optional[str] = None",
    "password=user_password", "password = args.password", "self.password = password", "api_key=settings.OPENAI_API_KEY",
    'url = f"postgresql://{user}:{password}@{host}/db"', 'f"Bearer {token}"', '"Bearer " + access_token',
    "https://$USER:$PASSWORD@host/db", "postgres://%s:%s@%s/db", "https://<user>:<password>@host",
    'curl -H "Authorization: Bearer $TOKEN"', "export PASSWORD=$(pass show db)", "export API_KEY=${API_KEY:-}",
    "curl -u $USER:$PASS x", "curl -u bob https://x:8080/", "curl -u bob:<password> x; tar -u a:bcdef",
    "mysql -u root -p shop", 'sshpass -p "$PW" ssh a', "docker run mysql -p 8080:80",
    "docker run --name mysql -p8080:80", "curl a | sort -u b:cdefgh",
    "PASSWORD=$1", 'password = "${DB_PASSWORD}"', "password: ${{ secrets.DB_PASSWORD }}",
    "password: {{ vault_password }}",
    'f"password={password}"', 'password = f"{prefix}-{name}"', 'password: str = Field(min_length=8)',
    'password = hashlib.sha256(raw.encode()).hexdigest()', "password = input('Password: ')", "token = next(tokens)",
    "token=self.tokenizer.eos_token_id", 'tokenizer.pad_token = "<pad>"', "max_tokens=4096, token_count=12000",
    "token: string;", "password: string | null;", '"password": {"type": "string", "minLength": 8}',
    '{"password": "string"}', '<input type="password" name="password">', "password_hash = bcrypt.hash(password)",
    "if password == confirm_password:", "assert token == expected_token", "secret = secrets.token_urlsafe(32)",
    "private_key=/etc/ssl/private/server.key", 'private_key_path = "certs/server.pem"', "secret_key: !vault |",
    "api_key='YOUR_API_KEY'", 'password="<your password>"', "password=********", 'password="your-password-here"',
    "bearer authentication is required for this endpoint", "Bearer authentication", "the secret: patience and practice",
    'parser.add_argument("--password", required=True)', "tool --password $PW", "WHERE password IS NULL AND token = 5",
    "print(password, token)", "lambda token: token.lower()", "for token, secret in pairs: token = secret",
    "token = 'identifier'", 'raise ValueError("password: must be at least 8 characters")',
    "key = keys[0]; pwd = os.getcwd()",
    'password: "at least eight characters long"', '"password": "enter the one that was mailed"', "password=user.pw!;",
    'secret: "correct horse battery staple"', 'passphrase: "three random words"', "let password = stored!;",
    "password=self._decrypt(row[3])", "password = await vault.read('db')", "password = data['password']",
    'errors["password"] = "wrong"', 'password = "empty"', "docker login -u ann --password-stdin", "docker login -p $PW",
    "Passwort: bitte eingeben", "Set-Cookie: theme=dark; Path=/", "pip install pypi-simple", "AccountKey=<key>",
    "docker login -p 8080:80", "passwort = os.environ['P']", "docker login reg.io && docker run -d -p 8080:80 nginx",
    "docker login -u ann -p $PW reg.io && docker run -p 8080:80 img", "docker login ghcr.io && mkdir -p build/output",
    "docker login --password-stdin && docker compose -p project up", "docker login first, then run -p 8080:80",
    "new Client(secretAccessKey=configuration_secret_value)", "AccountKey=get_storage_account_key(name)",
    "SG.authentication_service.validate_user_credentials(x)", "pypi-publish-to-test-index: runs on tags",
    "Пароль: введите новый пароль", "パスワード：入力してください", "密码：请输入您的密码", "mot de passe: élémentaire",
    'api_key="header"', 'auth_token="cookie"', 'state.password = "strong"', 'pwd = "bad_pwd"',
    "new Client({ apiKey: process.env.API_KEY })", "password: process.env.DB_PASSWORD,", "secret=secret, token=token)",
]  # fmt: skip


@pytest.mark.parametrize("marked", LITERALS)
def test_a_literal_behind_a_telling_name_is_masked_and_nothing_else(marked):
    text = marked.replace("«", "").replace("»", "")
    expected = "".join(part.partition("»")[2] if i else part for i, part in enumerate(marked.split("«")))
    start = marked.index("«")
    assert mask_secrets(text) == expected[:start] + MASK + expected[start:]
    assert mask_secrets(f"before\n{text}\nafter") == f"before\n{expected[:start]}{MASK}{expected[start:]}\nafter"


@pytest.mark.parametrize("code", CODE)
def test_expressions_types_and_placeholders_are_kept(code):
    assert mask_secrets(code) == code
    assert mask_secrets(f"  {code}\n    more()\n") == f"  {code}\n    more()\n"


@pytest.mark.parametrize("text", [*LITERALS, *CODE, *SECRETS])
def test_masking_twice_changes_nothing_more(text):
    once = mask_secrets(text.replace("«", "").replace("»", ""))
    assert mask_secrets(once) == once


def test_text_and_number_checks():
    assert clean_text("  a b\n", what="x", where="t") == "  a b\n"
    assert clean_text("", what="x", where="t", empty=True) == ""
    for bad in (None, 3, b"a", "", "\t", "a\x00", "\udc80", "x" * 11):
        with pytest.raises(BadInput):
            clean_text(bad, what="x", where="t", limit=10)
    assert finite(1, what="x", where="t") == 1.0 and finite(np.float32(0.5), what="x", where="t") == 0.5
    for bad in (None, "x", "0.5", b"1", True, np.True_, 10**400, float("nan"), float("inf"), 2.0):
        with pytest.raises(BadInput):
            finite(bad, what="x", where="t", lo=0.0, hi=1.0)
    assert content_hash("a") != content_hash("b") and len(content_hash("é🚀")) == 32


@pytest.mark.parametrize("text", ["sk-" * 40_000, "a." * 60_000 + "://", "b-" * 40_000 + "://u:", "sk-a-" * 30_000])
def test_a_long_text_is_searched_in_one_pass(text):
    """What a degenerate answer looks like; with a pattern that starts anew at every place this takes minutes."""
    assert mask_secrets(text) == text


def test_numbers_beyond_a_float_are_compared_or_refused():
    with Memory(policy="rag", embedder="hash:32") as memory:
        memory.remember("a", "b", metadata={"x": 1})
        assert len(memory.items(filter={"x": {"<": 10**400}})) == 1
        assert not memory.items(filter={"x": {">": 10**400}})
        with pytest.raises(BadInput, match="not an expiry"):
            memory.remember("a", "c", expires=datetime.min)
    for lo, hi in ((-1e308, 1e308), (0.0, 1e-200)):  # their squares are no numbers
        with pytest.raises(BadInput, match="not a range"):
            Memory(embedder="hash:32", reward_range=(lo, hi))


def test_numbers_of_numpy_are_numbers():
    with Memory(policy="rag", embedder="hash:32") as memory:
        given = {"n": np.int64(3), "x": np.float32(0.5), "yes": np.bool_(True), "tags": [np.int8(1), "a"]}
        id_ = memory.remember("a", "b", metadata=given)
        assert memory.get(id_).metadata == {"n": 3, "x": 0.5, "yes": True, "tags": [1, "a"]}
        for asked in (
            {"n": np.int64(3)},
            {"n": {"in": [np.int8(3)]}},
            {"x": {">": np.float64(0.4)}},
            {"yes": np.True_},
        ):
            assert memory.count(filter=asked) == 1, asked
        with pytest.raises(BadInput, match="cannot be stored"):
            memory.remember("a", "c", metadata={"x": np.float64("nan")})


def test_a_text_is_no_truth_value():
    with Memory(policy="memrl", embedder="hash:32") as memory:
        memory.remember("a", "b")
        recall = memory.recall("a")
        with pytest.raises(BadInput, match="no truth value"):
            memory.settle(recall, 1.0, valid="false")
        for name in ("frozen", "is_test"):
            with pytest.raises(BadInput, match="no truth value"):
                memory.recall("a", **{name: "false"})
        with pytest.raises(BadInput, match="without weight") as error:
            memory.settle(recall, 1.0, weight=0)
        assert error.value.code == "out_of_range" and memory.settle(recall, 1.0, valid=np.True_)
