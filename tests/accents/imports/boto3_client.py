import boto3
from botocore.exceptions import ClientError
s3 = boto3.client('s3')
print(callable(s3.put_object))

# expect stdout:
# | True
# limits: monty
